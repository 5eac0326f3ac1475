"""The paper's Figures 3 to 5: attention maps as a page and as figures."""
