"""§5.1, §6.1: raw text to subwords and back, and the scores of a translation.

Nothing here imports torch or fairseq.
"""
