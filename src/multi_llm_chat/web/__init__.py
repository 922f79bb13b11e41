"""The web app: several models side by side in one conversation, in the browser.

``web.server.make_app`` makes the application, ``web.server.make_server`` the server that runs it.
"""
