"""HTTP/2 (RFC 9113) and its header compression HPACK (RFC 7541), the server's side, without IO."""
