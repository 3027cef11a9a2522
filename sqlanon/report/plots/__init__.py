"""Plots: pure functions that take numbers and return SVG.

Each is drawn about 360 units wide, so that its text is legible both on a phone, where it fills the screen, and beside
a table on a desk. Colours are classes of the style sheet, so that plots follow light, dark and print.
"""
