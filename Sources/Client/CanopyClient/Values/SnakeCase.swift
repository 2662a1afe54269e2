extension String {
  /// The name in snake case: `oneTwoThree` becomes `one_two_three`, and `myURLPath` becomes `my_url_path`.
  ///
  /// The first character begins no other word, as in Foundation's JSON encoder: `URL` becomes `u_rl`.
  var snakeCased: String {
    let letters = Array(self)
    var starts = [0]
    var next = 1
    while next < letters.count, let upper = letters[next...].firstIndex(where: isUpper) {
      starts.append(upper)
      guard let lower = letters[upper...].firstIndex(where: isLower) else { break }
      // The last of several capitals begins the next word.
      if lower > upper + 1 { starts.append(lower - 1) }
      next = lower + 1
    }
    let words = zip(starts, starts.dropFirst() + [letters.count]).map { start, end in
      String(letters[start..<end]).inLowerCase
    }
    return words.joined(separator: "_")
  }

  /// The name in camel case: `one_two_three` becomes `oneTwoThree`. Leading and trailing underscores stay.
  var camelCased: String {
    let letters = Array(self)
    guard let first = letters.firstIndex(where: isNoUnderscore),
      let last = letters.lastIndex(where: isNoUnderscore)
    else { return self }
    let words = letters[first...last].split { !isNoUnderscore($0) }.map { String($0) }
    // Without an underscore inside, the name may be in camel case already.
    guard words.count > 1 else { return self }
    let name = words[0].inLowerCase + words.dropFirst().map(\.withCapital).joined()
    return String(letters[..<first]) + name + String(letters[(last + 1)...])
  }

  private var inLowerCase: String {
    unicodeScalars.map(\.properties.lowercaseMapping).joined()
  }

  /// The word in lower case, except for its first character.
  private var withCapital: String {
    guard let first = unicodeScalars.first else { return self }
    return first.properties.titlecaseMapping
      + unicodeScalars.dropFirst().map(\.properties.lowercaseMapping).joined()
  }
}

private func isUpper(_ letter: Character) -> Bool {
  letter.unicodeScalars.first?.properties.isUppercase ?? false
}

private func isLower(_ letter: Character) -> Bool {
  letter.unicodeScalars.first?.properties.isLowercase ?? false
}

private func isNoUnderscore(_ letter: Character) -> Bool {
  !letter.utf8.elementsEqual(CollectionOfOne(UInt8(ascii: "_")))
}
