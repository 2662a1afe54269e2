import ArgumentParser
import Foundation

/// Options that can come from the environment as well.
enum Setting {
  /// The option if it was given, else the variable of its name, else the default.
  ///
  /// - Parameters:
  ///   - name: of the option, without dashes in front: `signups-per-minute`.
  ///   - given: what the command line says.
  /// - Throws: `ValidationError` for a variable that cannot be read as a value.
  static func value<Value: ExpressibleByArgument>(
    _ name: String, _ given: Value?, default: Value
  ) throws -> Value {
    try value(name, given) ?? `default`
  }

  /// The same without a default.
  static func value<Value: ExpressibleByArgument>(
    _ name: String, _ given: Value?
  ) throws -> Value? {
    if let given { return given }
    let variable = "CANOPY_" + name.uppercased().replacing("-", with: "_")
    guard let text = ProcessInfo.processInfo.environment[variable], !text.isEmpty else {
      return nil
    }
    guard let value = Value(argument: text) else {
      throw ValidationError("the value of \(variable) is not valid: \(text)")
    }
    return value
  }
}

/// The data folder, which almost every command works on.
struct FolderOption: ParsableArguments {
  @Option(name: .long, help: "The data folder.")
  var data: String?

  func folder() throws -> String {
    guard let folder = try Setting.value("data", data) else {
      throw ValidationError("name the data folder: --data DIR, or CANOPY_DATA")
    }
    return folder
  }

  /// A folder that is there already.
  func existingFolder() throws -> String {
    let folder = try folder()
    guard FileManager.default.fileExists(atPath: folder + "/canopy.sqlite") else {
      throw ValidationError("there is no Canopy data in \(folder)")
    }
    return folder
  }
}
