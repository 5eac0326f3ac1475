"""The paper's Figures 3 to 5: attention maps as an HTML page and as figures."""
