"""Speed and memory beside fairseq and CTranslate2, behind `aiayn benchmark`."""
