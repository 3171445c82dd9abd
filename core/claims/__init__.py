"""What is said of a head, and its test on texts that it has not seen."""
