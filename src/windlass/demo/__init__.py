"""The demo: place names in other scripts, and a small grammar to parse."""
