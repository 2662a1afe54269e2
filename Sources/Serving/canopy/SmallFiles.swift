import CanopyAccounts
import CanopyEngine
import CanopyIdentity
import CanopyRules
import CanopySystem
import Foundation

/// The rules and the secrets of a data folder, which are small files beside the database.
enum SmallFiles {
  /// The names of the files with secrets.
  static let secrets = [AdministratorToken.fileName, IdentityKeys.fileName]
  /// More bytes than a file with secrets has.
  static let secretBytesMax = 1024 * 1024

  /// Returns a sentence if a server would not start with the contents of a file; nil if it would.
  static func problem(_ path: String, _ contents: [UInt8]) -> String? {
    do {
      switch path.split(separator: "/").last.map(String.init) {
      case RulesFile.name:
        let file = RulesFile(contents)
        guard file.isIntact else { return RulesFile.damage(of: path) }
        _ = try RuleSet(utf8: file.body, file: path)
      case AdministratorToken.fileName: try AdministratorToken.check(contents, of: path)
      case IdentityKeys.fileName: try IdentityKeys.check(contents, of: path)
      default: break
      }
      return nil
    } catch { return Failure(error).description }
  }

  /// Returns a sentence for each file in the folder of a namespace with which a server would not start. A missing file is
  /// no problem.
  ///
  /// - Parameter isDefault: whether it is the default namespace, whose folder has the secrets.
  static func problems(in folder: String, isDefault: Bool) -> [String] {
    ([RulesFile.name] + (isDefault ? secrets : [])).compactMap { name in
      let path = folder + "/" + name
      let target = URL(fileURLWithPath: path).resolvingSymlinksInPath().path
      guard let attributes = try? FileManager.default.attributesOfItem(atPath: target) else {
        return isBrokenLink(path)
          ? "\(path) is a symbolic link to a missing file: put the file back, or remove the link"
          : nil
      }
      // To read a pipe would wait for its other end.
      guard attributes[.type] as? FileAttributeType == .typeRegular else {
        return "\(path) is not a regular file"
      }
      // A file that is cut to the bound is too long for rules and secrets.
      do throws(FileError) { return problem(path, try SmallFile.read(path)) } catch {
        // A command may have removed the namespace meanwhile.
        guard access(path, F_OK) == 0 else { return nil }
        return "\(path) cannot be read: \(error.reason)"
      }
    }
  }

  /// Whether a path is a symbolic link to a missing file.
  static func isBrokenLink(_ path: String) -> Bool {
    access(path, F_OK) != 0 && errno == ENOENT
      && (try? FileManager.default.destinationOfSymbolicLink(atPath: path)) != nil
  }

  /// Removes the secrets with which a server would not start. Returns a line for each.
  static func removeDamagedSecrets(in folder: String) async -> [String] {
    var lines: [String] = []
    for name in secrets {
      let path = folder + "/" + name
      guard access(path, F_OK) == 0 else { continue }
      do {
        if name == AdministratorToken.fileName {
          _ = try AdministratorToken.load(from: folder)
        } else {
          _ = try await IdentityKeys.loadOrCreate(in: folder, environment: Composition.environment)
        }
      } catch {
        try? FileManager.default.removeItem(atPath: path)
        lines.append(lossOfSecret(name))
      }
    }
    return lines
  }

  /// Returns the line for a secret that is left out.
  static func lossOfSecret(_ name: String) -> String {
    "lost: \(name), which cannot be read; the next start makes a new one"
  }
}
