"""What people look at: attention (Figures 3 to 5), runs beside the paper's tables, figures."""
