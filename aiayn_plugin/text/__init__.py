"""§5.1, §6.1: from raw text to subwords and back, and the scores of translations.

Nothing here imports torch or fairseq.
"""
