"""Attention calls of a pass: which heads are edited in them and where, and their stages in blocks of rows."""
