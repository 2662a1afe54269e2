import CanopyTree

@testable import CanopyClient

/// The simplest model of a store.
struct NaiveStore {
  private var writes: [WriteID: SavedState.SavedWrite] = [:]
  private var trees: [QuerySpec: (tree: Tree, sequence: Int64)] = [:]

  mutating func record(_ changes: [StateChange]) {
    for change in changes {
      switch change {
      case .writeAdded(let id, let write, let milliseconds):
        writes[id] = SavedState.SavedWrite(id: id, write: write, milliseconds: milliseconds)
      case .writeRemoved(let id): writes[id] = nil
      case .received(let spec, let assignments, let sequence):
        var tree = trees[spec]?.tree ?? Tree()
        tree.apply(assignments)
        trees[spec] = (tree, sequence)
      case .listening, .kept: break
      }
    }
  }

  func load() -> SavedState {
    SavedState(
      writes: writes.values.sorted { $0.id < $1.id },
      queries: trees.mapValues {
        SavedState.SavedQuery(node: $0.tree.root, sequence: $0.sequence)
      })
  }
}
