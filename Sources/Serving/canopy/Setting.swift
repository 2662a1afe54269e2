import ArgumentParser
import CanopySQLite
import CanopySystem
import Foundation

/// Options that the environment can set too.
enum Setting {
  /// Returns the value of an option: from the command line, else from the environment, else the default.
  ///
  /// - Parameters:
  ///   - name: the option's name without the dashes in front: `signups-per-minute`.
  ///   - given: the value on the command line.
  /// - Throws: `ValidationError` for a variable that is not a value of the type.
  static func value<Value: ExpressibleByArgument>(
    _ name: String, _ given: Value?, default: Value
  ) throws -> Value {
    try value(name, given) ?? `default`
  }

  /// Returns the value of an option without a default; nil if it is not set.
  static func value<Value: ExpressibleByArgument>(
    _ name: String, _ given: Value?
  ) throws -> Value? {
    if let given { return given }
    let variable = "CANOPY_" + name.uppercased().replacing("-", with: "_")
    guard let text = ProcessInfo.processInfo.environment[variable], !text.isEmpty else {
      return nil
    }
    guard let value = Value(argument: text) else {
      throw ValidationError("the value of \(variable) is not valid: \(text); see canopy help serve")
    }
    return value
  }

  /// Returns the path from the root of a file or a folder that an argument names: see `AbsolutePath`.
  static func path(_ argument: String) throws -> String {
    do throws(FileError) { return try AbsolutePath.of(argument) } catch {
      throw Failure(
        "the current folder cannot be found (\(error.reason)): change into a folder that exists")
    }
  }
}

/// The option for the data folder, which almost every command has.
struct FolderOption: ParsableArguments {
  @Option(name: .long, help: "The data folder.")
  var data: String?

  /// Returns the path of the data folder, from the root.
  func folder() throws -> String {
    guard let folder = try Setting.value("data", data) else {
      throw ValidationError("name the data folder: --data DIR, or CANOPY_DATA")
    }
    guard !folder.isEmpty else {
      throw ValidationError("the name of the data folder is empty; name a folder")
    }
    return try Setting.path(folder)
  }

  /// Returns the path of a data folder that exists and belongs to the user of the command. The server of another user could
  /// not read files that this command makes in it.
  func ownFolder() throws -> String {
    let folder = try existingFolder()
    let attributes = try? FileManager.default.attributesOfItem(atPath: folder + "/.")
    guard let number = attributes?[.ownerAccountID] as? NSNumber, number.uint32Value != geteuid()
    else { return folder }
    let owner = attributes?[.ownerAccountName] as? String ?? "\(number)"
    throw Failure(
      "\(folder) belongs to the user \(owner): run this command as that user (runuser -u \(owner) -- canopy …)"
    )
  }

  /// Returns the path of a data folder that exists.
  ///
  /// - Throws: `StoreError` for one in which a server has begun and that has no database: it was lost, or the first start was
  ///   interrupted. `ValidationError` for another folder.
  func existingFolder() throws -> String {
    let folder = try folder()
    if access("\(folder)/canopy.sqlite", F_OK) != 0, errno == EACCES {
      throw Failure(
        "\(folder) cannot be read: \(String(cString: strerror(EACCES))); run the command as the user who owns the folder"
      )
    }
    func has(_ name: String) -> Bool { FileManager.default.fileExists(atPath: "\(folder)/\(name)") }
    guard has("canopy.sqlite") else {
      if has("lock"), !has(NodeFolder.nameFile) {
        do { try SQLiteStore.reading(folder).close() } catch StoreError.inUse {
          throw Failure(
            "\(folder)/canopy.sqlite is missing, although \(FolderLock.holder(of: folder)) uses the folder: put the file "
              + "back, or save the tree of that server before you stop it, with /.json as its administrator"
          )
        }
      }
      throw ValidationError(
        "\(folder) is not a Canopy data folder; name one with a file canopy.sqlite")
    }
    return folder
  }
}
