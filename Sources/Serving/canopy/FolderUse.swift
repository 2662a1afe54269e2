import CanopyAccounts
import CanopyLineServer
import CanopySQLite
import Foundation

/// The use of a data folder by another process: a server, which answers on the socket in the folder, or a command.
enum FolderUse {
  /// The longest wait for another command that uses the folder.
  private static let waitMax = Duration.seconds(5)

  /// Opens a folder, or asks the server that uses it. Waits some seconds while another process uses the folder and does not
  /// answer: a command ends soon, and a server that has just started answers soon.
  ///
  /// - Parameters:
  ///   - inFolder: opens the folder. It may be called several times.
  ///   - onServer: connects to the server.
  static func choose<R>(
    _ folder: String, inFolder: () async throws -> R, onServer: () async throws -> R
  ) async throws -> R {
    let end = Composition.clock.now + waitMax
    while true {
      let used: StoreError
      do { return try await inFolder() } catch let error as StoreError {
        guard case .inUse = error else { throw error }
        used = error
      }
      do { return try await onServer() } catch let error as NoServer {
        guard Composition.clock.now < end else {
          // It may be the folder of a namespace that is in use.
          if isUsed(folder) { throw error }
          throw used
        }
      }
      try await Composition.clock.sleep(for: .milliseconds(50))
    }
  }

  /// Whether another process uses a folder. Takes the lock of the folder for a moment if none does.
  static func isUsed(_ folder: String) -> Bool {
    do {
      try FolderLock(folder: folder, isReading: true).release()
      return false
    } catch {
      if case .inUse = error { return true }
      return false
    }
  }
}

/// The error if no server answers on the socket of a folder.
struct NoServer: Error {
  let folder: String
  /// Whether the folder has the token of the administrator.
  var hasToken = true

  /// One sentence that says what to do.
  var sentence: String {
    guard FolderUse.isUsed(folder) else {
      guard hasToken else {
        return
          "\(folder) has no \(AdministratorToken.fileName); name the data folder of a server that was started at least once"
      }
      return "no server is running on \(folder); start one with canopy serve --data \(folder)"
    }
    return
      "\(folder) is in use by \(FolderLock.holder(of: folder)), which does not answer on \(LocalSocket.fileName): "
      + "if it is a command, wait until it has ended; if it is the server, restart it"
  }
}
