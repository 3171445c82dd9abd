"""What the browser adds: small components with their JavaScript and CSS in files beside them."""
