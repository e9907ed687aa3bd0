"""The commands, a file for those that belong together; importing one adds it to the application."""
