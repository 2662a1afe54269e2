import CanopyClient

// The parts of a phone application that the samples use.

/// A table on a screen.
@MainActor final class UITableView {
  enum RowAnimation {
    case automatic
  }

  private(set) var inserted: [IndexPath] = []
  private(set) var deleted: [IndexPath] = []

  func insertRows(at rows: [IndexPath], with animation: RowAnimation) {
    inserted += rows
  }

  func deleteRows(at rows: [IndexPath], with animation: RowAnimation) {
    deleted += rows
  }
}

extension IndexPath {
  init(row: Int, section: Int) {
    self.init(indexes: [section, row])
  }

  var row: Int { self[1] }
}

/// The profile of a user in an application.
struct Profile: Sendable, Equatable {
  var username: String
}
