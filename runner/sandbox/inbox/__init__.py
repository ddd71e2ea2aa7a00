"""The web inbox: launches, phones and conversations on a page, where one answers as a participant would.

Everything is rendered here, on the server; the script of the page only keeps it current.
"""
