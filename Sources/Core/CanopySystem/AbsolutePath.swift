#if canImport(Glibc)
  internal import Glibc
#elseif canImport(Musl)
  internal import Musl
#endif

/// The paths of files and folders that an argument of a command names.
public enum AbsolutePath {
  /// Returns a path from the root, by which all commands and SQLite find the same file.
  ///
  /// The names `..` and `~` stay as they are, and so do links, because the system resolves them. Foundation would take
  /// `~` for the home folder, and `link/..` for the folder in which the link is. SQLite would take a relative name that
  /// begins with `file:` for a URI.
  ///
  /// - Throws: `FileError` if the current folder does not exist any more.
  public static func of(_ path: String) throws(FileError) -> String {
    if path.utf8.first == UInt8(ascii: "/") { return path }
    guard let current = getcwd(nil, 0) else { throw FileError("find", ".") }
    defer { free(current) }
    // A name that is not UTF-8 would be another one as a string.
    guard let folder = String(validatingCString: current) else { return "./" + path }
    return (folder.utf8.last == UInt8(ascii: "/") ? folder : folder + "/") + path
  }
}
