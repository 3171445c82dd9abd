"""What makes things that are kept in the repository: parts of docs, pictures of the gallery, the included model."""
