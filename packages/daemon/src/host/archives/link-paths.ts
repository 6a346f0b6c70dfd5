interface Node {
  link: boolean;
  readonly below: Map<string, Node>;
}

/** Paths of links; what is asked of a path takes time by its length alone, however many links there are. */
export class LinkPaths {
  readonly #root: Node = { link: false, below: new Map() };

  add(path: readonly string[]): void {
    let node = this.#root;
    for (const part of path) {
      let next = node.below.get(part);
      if (next === undefined) {
        next = { link: false, below: new Map() };
        node.below.set(part, next);
      }
      node = next;
    }
    node.link = true;
  }

  delete(path: readonly string[]): void {
    const node = this.#find(path);
    if (node !== undefined) node.link = false;
  }

  has(path: readonly string[]): boolean {
    return this.#find(path)?.link === true;
  }

  /** Whether a folder of the path is a link. */
  leadsTo(path: readonly string[]): boolean {
    let node: Node | undefined = this.#root;
    for (const part of path.slice(0, -1)) {
      node = node.below.get(part);
      if (node === undefined) return false;
      if (node.link) return true;
    }
    return false;
  }

  #find(path: readonly string[]): Node | undefined {
    let node: Node | undefined = this.#root;
    for (const part of path) {
      node = node.below.get(part);
      if (node === undefined) return undefined;
    }
    return node;
  }
}
