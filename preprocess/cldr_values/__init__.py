"""Values in English and in German, from the Unicode CLDR (by Babel) and num2words.

A value is a date, an amount, a list of countries and so on. The English always determines the
German, so a perfect translation exists.
"""
