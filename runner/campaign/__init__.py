"""What the user asked for: campaign files, audiences, phones, templates, segments."""
