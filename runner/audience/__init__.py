"""Files and queries of recipients: formats, encodings, phones, time zones, consent."""
