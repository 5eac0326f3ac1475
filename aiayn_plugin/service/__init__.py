"""`aiayn serve`: translations over HTTP, by a model that stays in memory."""
