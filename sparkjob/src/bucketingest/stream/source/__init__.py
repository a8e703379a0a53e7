"""From a source to the table's rows: reading, decoding, the SQL transform."""
