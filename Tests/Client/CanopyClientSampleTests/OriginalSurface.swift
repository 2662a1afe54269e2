// swift-format-ignore-file: NeverForceUnwrap, NeverUseImplicitlyUnwrappedOptionals
import CanopyClient

/// Each call of the original library's database, in each of its forms, as code for it writes them. It need not run: if it
/// compiles, code that was written for the original compiles too.
@MainActor final class OriginalSurface {
  var ref: DatabaseReference!
  var error: Error?
  var snapshot: DataSnapshot?
  var key: String?

  func databases(_ app: FirebaseApp) {
    FirebaseApp.configure()
    Database.setLoggingEnabled(true)
    let database: Database = Database.database(app: app, url: "http://127.0.0.1:9000?ns=demo")
    database.isPersistenceEnabled = true
    database.persistenceCacheSizeBytes = 20 * 1024 * 1024
    database.callbackQueue = DispatchQueue.main
    database.useEmulator(withHost: "127.0.0.1", port: 9000)
    database.goOffline()
    database.goOnline()
    database.purgeOutstandingWrites()
    let owner: FirebaseApp? = database.app
    print(Database.sdkVersion(), owner?.name ?? "", Database.database(app: app) === database)
    ref = Database.database(url: "http://127.0.0.1:9000").reference()
    ref = Database.database().reference(withPath: "a")
    ref = Database.database().reference(fromURL: "http://127.0.0.1:9000/a")
    DatabaseReference.goOffline()
    DatabaseReference.goOnline()
    print(ref.key ?? "", ref.parent ?? ref!, ref.root, ref.database, ref.description, ref.url)
  }

  func writes() {
    let block: @MainActor (Error?, DatabaseReference) -> Void = { error, _ in self.error = error }
    ref.setValue(1)
    ref.setValue(nil, withCompletionBlock: block)
    ref.setValue("a", andPriority: 1)
    ref.setValue(["a": 1], andPriority: nil, withCompletionBlock: block)
    ref.removeValue()
    ref.removeValue(completionBlock: block)
    ref.setPriority("p")
    ref.setPriority(nil, withCompletionBlock: block)
    ref.updateChildValues(["a": 1, "b/c": ServerValue.timestamp()])
    ref.updateChildValues(["a": ServerValue.increment(1)], withCompletionBlock: block)
    ref.onDisconnectSetValue(1)
    ref.onDisconnectSetValue(1, withCompletionBlock: block)
    ref.onDisconnectSetValue(1, andPriority: 2)
    ref.onDisconnectSetValue(1, andPriority: 2, withCompletionBlock: block)
    ref.onDisconnectRemoveValue()
    ref.onDisconnectRemoveValue(completionBlock: block)
    ref.onDisconnectUpdateChildValues(["a": 1])
    ref.onDisconnectUpdateChildValues(["a": 1], withCompletionBlock: block)
    ref.cancelDisconnectOperations()
    ref.cancelDisconnectOperations(completionBlock: block)
    ref.setValue(1) {
      self.error = $0; self.key = $1.key
    }
    ref.removeValue { error, _ in self.error = error }
  }

  func transactions() {
    ref.runTransactionBlock { (data: MutableData) -> TransactionResult in
      data.value = data.hasChildren() ? nil : data.childrenCount
      data.priority = 1
      data.childData(byAppendingPath: "a").value = data.key
      for case let child as MutableData in data.children where data.hasChild(atPath: "a") {
        child.value = nil
      }
      return TransactionResult.success(withValue: data)
    }
    ref.runTransactionBlock({ _ in TransactionResult.abort() }) { error, committed, snapshot in
      self.error = committed ? nil : error
      self.snapshot = snapshot
    }
    ref.runTransactionBlock(
      { TransactionResult.success(withValue: $0) },
      andCompletionBlock: { error, _, _ in self.error = error }, withLocalEvents: false)
    ref.runTransactionBlock(
      { TransactionResult.success(withValue: $0) }, andCompletionBlock: nil, withLocalEvents: true)
  }

  func observers() {
    var handles: [DatabaseHandle] = []
    for type in [DataEventType.childAdded, .childChanged, .childMoved, .childRemoved, .value] {
      handles.append(ref.observe(type) { self.snapshot = $0 })
      handles.append(ref.observe(type, with: { self.snapshot = $0 }))
      handles.append(
        ref.observe(type, with: { self.snapshot = $0 }, withCancel: { self.error = $0 }))
      handles.append(ref.observe(type, andPreviousSiblingKeyWith: { _, key in self.key = key }))
      handles.append(
        ref.observe(type, andPreviousSiblingKeyWith: { _, key in self.key = key }) { error in
          self.error = error
        })
    }
    ref.observeSingleEvent(of: .value) { self.snapshot = $0 }
    ref.observeSingleEvent(of: .value, with: { self.snapshot = $0 }) { self.error = $0 }
    ref.observeSingleEvent(of: .value, andPreviousSiblingKeyWith: { _, key in self.key = key })
    ref.observeSingleEvent(
      of: .value, andPreviousSiblingKeyWith: { _, key in self.key = key },
      withCancel: { self.error = $0 })
    ref.getData(completion: { error, snapshot in
      self.error = error
      self.snapshot = snapshot
    })
    ref.getData { _, snapshot in self.snapshot = snapshot }
    ref.removeObserver(withHandle: handles[0])
    ref.removeAllObservers()
    ref.keepSynced(true)
  }

  func queries() -> DatabaseQuery {
    let queries: [DatabaseQuery] = [
      ref.queryOrderedByKey(), ref.queryOrderedByValue(), ref.queryOrderedByPriority(),
      ref.queryOrdered(byChild: "a"), ref.queryLimited(toFirst: 1), ref.queryLimited(toLast: 1),
      ref.queryStarting(atValue: 1), ref.queryStarting(atValue: 1, childKey: "a"),
      ref.queryStarting(afterValue: 1), ref.queryStarting(afterValue: 1, childKey: "a"),
      ref.queryEnding(atValue: 1), ref.queryEnding(atValue: 1, childKey: "a"),
      ref.queryEnding(beforeValue: 1), ref.queryEnding(beforeValue: 1, childKey: "a"),
      ref.queryEqual(toValue: 1), ref.queryEqual(toValue: 1, childKey: "a"),
    ]
    let place: DatabaseReference = queries[0].ref
    return place.child("a").childByAutoId().queryLimited(toFirst: 1)
  }

  func snapshots(_ snapshot: DataSnapshot) -> [DataSnapshot] {
    let place: DatabaseReference = snapshot.ref
    let text = "\(snapshot.key) \(String(describing: snapshot.value)) \(snapshot.childrenCount)"
    print(text, snapshot.priority ?? "", snapshot.valueInExportFormat() ?? "", place)
    guard snapshot.exists(), snapshot.hasChildren(), snapshot.hasChild("a") else { return [] }
    return (snapshot.children.allObjects as? [DataSnapshot] ?? [])
      + [snapshot.childSnapshot(forPath: "a/b")]
  }

  struct Item: Codable {
    var name: String
    @ServerTimestamp var at: Date?
    @ExplicitNull var note: String?
  }

  func coders(_ snapshot: DataSnapshot) throws -> Item {
    let item = Item(name: "a", at: nil, note: nil)
    try ref.setValue(from: item)
    try ref.setValue(from: item, encoder: Database.Encoder()) { self.error = $0 }
    let value = try Database.Encoder().encode(item)
    return try Database.Decoder().decode(Item.self, from: value).name.isEmpty
      ? snapshot.data(as: Item.self, decoder: Database.Decoder()) : snapshot.data(as: Item.self)
  }

  func asynchronous() async throws {
    try await ref.setValue(1)
    _ = try await ref.setValue(1, andPriority: 2)
    _ = try await ref.removeValue()
    _ = try await ref.setPriority(1)
    _ = try await ref.updateChildValues(["a": 1])
    _ = try await ref.onDisconnectSetValue(1)
    _ = try await ref.onDisconnectSetValue(1, andPriority: 2)
    _ = try await ref.onDisconnectRemoveValue()
    _ = try await ref.onDisconnectUpdateChildValues(["a": 1])
    _ = try await ref.cancelDisconnectOperations()
    snapshot = try await ref.getData()
    (snapshot, key) = try await ref.observeSingleEventAndPreviousSiblingKey(of: .value)
    let (committed, after) = try await ref.runTransactionBlock { .success(withValue: $0) }
    print(committed, after)
  }

  /// The forms with a closure, in an asynchronous function: the closure is the completion, and nothing waits.
  func closuresInAsynchronousCode() async throws {
    ref.setValue(["a": 1]) { (error: Error?, ref: DatabaseReference) in self.error = error }
    ref.setValue(["a": 1]) { error, _ in
      if let error { self.error = error }
    }
    ref.setValue(1, withCompletionBlock: { error, _ in self.error = error })
    ref.setValue(1, andPriority: 2) { error, _ in self.error = error }
    ref.removeValue { error, _ in self.error = error }
    ref.setPriority(1) { error, _ in self.error = error }
    ref.updateChildValues(["a": 1]) { (error: Error?, ref: DatabaseReference) in self.error = error
    }
    ref.onDisconnectSetValue(1) { (error: Error?, ref: DatabaseReference) in self.error = error }
    ref.onDisconnectSetValue(1, andPriority: 2) { error, _ in self.error = error }
    ref.onDisconnectRemoveValue { error, _ in self.error = error }
    ref.onDisconnectUpdateChildValues(["a": 1]) { error, _ in self.error = error }
    ref.cancelDisconnectOperations { error, _ in self.error = error }
    ref.runTransactionBlock({ TransactionResult.success(withValue: $0) }) { error, _, snapshot in
      self.error = error
      self.snapshot = snapshot
    }
    try ref.setValue(from: Item(name: "a", at: nil, note: nil)) { self.error = $0 }
    ref.observeSingleEvent(of: .value) { self.snapshot = $0 }
    ref.observe(.value) { self.snapshot = $0 }
    ref.getData { _, snapshot in self.snapshot = snapshot }
    _ = try await ref.setValue(1, andPriority: nil)
    _ = try await ref.setValue(1, andPriority: snapshot?.priority)
    _ = try await ref.setValue(1, andPriority: ServerValue.timestamp())
    _ = try await ref.onDisconnectSetValue(1, andPriority: ServerValue.timestamp())
  }
}
