"""Growth of trees on an NVIDIA GPU, with the bits of the processor; needs the extra `cuda`."""
