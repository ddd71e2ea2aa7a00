"""Use cases of the commands and the Python API. Nothing here prints or knows Click."""
