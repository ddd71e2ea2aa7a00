"""The service over HTTP: the API, and the control routes below `/_sandbox/`."""
