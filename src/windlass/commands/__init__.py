"""The command line: one file a command, and the flags they share. Importing a command adds it to the application."""
