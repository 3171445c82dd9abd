"""Small components that run in the browser, with their HTML, JavaScript and CSS in files beside them."""
