"""The HTTP side: the routes of the reference, the control routes below `/_sandbox/`, and the server."""
