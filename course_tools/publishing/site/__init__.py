"""`course site`: lectures, claims, studies and the reference of the library as web pages that need no server and no network."""
