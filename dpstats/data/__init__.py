"""What is public about data, and what is read from them: parameters, labels, numbers, tables."""
