"""Static pictures as SVG text: pure functions of what was loaded, each with a text alternative and its data as rows."""
