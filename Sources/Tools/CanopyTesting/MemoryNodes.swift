internal import CanopyEngine
package import CanopyTree
internal import Synchronization

/// Nodes on a journal in memory, for the contract suite.
package struct MemoryNodes: SharedFixture {
  private let memory = SharedMemory()

  /// Creates an empty journal.
  package init() {}

  package func open(_ node: Int) -> NodeJournal { NodeJournal(memory, node: node) }

  package func close(_ store: NodeJournal, _ node: Int) { store.cut() }

  package func forget(
    through sequence: Int64, _ root: Node, of last: Int64, on store: NodeJournal
  ) {
    memory.forget(through: sequence)
  }

  package func endLease(of node: Int) {
    let now = memory.now()
    memory.state.withLock { $0.leases[SharedMemory.owner(node)] = now }
  }
}
