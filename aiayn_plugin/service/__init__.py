"""`aiayn serve`: translation over HTTP by one resident model."""
