"""Contrastive Forward-Forward training of Vision Transformers; nothing else here needs torch."""
