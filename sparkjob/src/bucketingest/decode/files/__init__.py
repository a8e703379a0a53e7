"""Files of a directory to Arrow columns, a module for each format: every row of a file is a row, a dead letter, or the
whole file is set aside. It opens nothing itself and knows no storage.
"""
