"""Fast implementations for the hardware at hand, one plain function per operation of the model."""
