"""Tables, and charts as inline SVG, of plain data."""
