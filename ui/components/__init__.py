"""Small components that run in the browser, with their JavaScript and CSS in files beside them."""
