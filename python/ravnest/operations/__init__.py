"""Names of the Python Ravnest that scripts import from here."""
