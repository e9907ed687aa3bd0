"""An experiment from files to a bundle."""
