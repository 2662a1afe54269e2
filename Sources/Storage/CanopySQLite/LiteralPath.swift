/// Returns a path of the same file that SQLite takes literally.
///
/// SQLite takes a name that begins with `file:` for a URI. It would open the database of another folder than the one that is
/// locked.
func literalPath(_ path: String) -> String {
  path.utf8.first == UInt8(ascii: "/") ? path : "./" + path
}
