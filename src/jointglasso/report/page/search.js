// The box that finds a variable.

/** Search with suggestions, by the keyboard pattern of a combobox. */
class SearchBox {
  constructor(input, list, model, onChoose) {
    Object.assign(this, { input, list, model, onChoose, found: [], active: -1 });
    input.addEventListener("input", () => this.#suggest());
    input.addEventListener("focus", () => this.#suggest());
    input.addEventListener("blur", () => this.#close());
    input.addEventListener("keydown", (event) => this.#key(event));
  }

  #suggest() {
    const { variables, texts } = this.model;
    this.found = findVariables(this.model, this.input.value, 12);
    this.active = this.found.length ? 0 : -1;
    const options = this.found.map((variable, position) => {
      const option = make("li", { text: variables[variable], attributes: { role: "option", id: `match-${position}` } });
      if (texts[variable]) option.append(make("small", { text: ` ${shorten(texts[variable], 60)}` }));
      // A press would take the focus from the input and close the list before the click arrives.
      option.addEventListener("mousedown", (event) => event.preventDefault());
      option.addEventListener("click", () => this.#choose(position));
      return option;
    });
    if (!options.length && this.input.value.trim()) options.push(make("li", { className: "quiet", text: "No such variable" }));
    this.list.replaceChildren(...options);
    this.#mark();
    this.list.hidden = !options.length;
    this.input.setAttribute("aria-expanded", String(this.found.length > 0));
  }

  #mark() {
    [...this.list.children].forEach((option, position) => option.setAttribute("aria-selected", String(position === this.active)));
    if (this.active >= 0) this.input.setAttribute("aria-activedescendant", `match-${this.active}`);
    else this.input.removeAttribute("aria-activedescendant");
  }

  #key(event) {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      const step = event.key === "ArrowDown" ? 1 : -1;
      if (this.found.length) this.active = (this.active + step + this.found.length) % this.found.length;
      this.#mark();
    } else if (event.key === "Enter") {
      if (this.active < 0) this.#suggest();
      if (this.active >= 0) this.#choose(this.active);
    } else if (event.key === "Escape") this.#close();
  }

  #choose(position) {
    const variable = this.found[position];
    this.input.value = this.model.variables[variable];
    this.#close();
    this.onChoose(variable);
  }

  #close() {
    this.list.hidden = true;
    this.active = -1;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }
}
