// Predictions and quizzes: the first click on an option opens all explanations. The choice is remembered in this browser.
(function () {
  "use strict";
  const isOption = (node) => node && node.matches("details") && /^\s*[A-Z]\. /.test(node.firstElementChild.textContent);

  function stored(key, letter) {
    try {
      return letter === undefined ? localStorage.getItem(key) : localStorage.setItem(key, letter);
    } catch {
      return null; // the browser keeps nothing
    }
  }

  function ask(options) {
    const key = "prediction " + location.pathname.split("/").pop() + " " + options[0].firstElementChild.textContent.trim();
    const reveal = (letter) =>
      options.forEach((option) => {
        const head = option.firstElementChild;
        const right = /^\s*(Yes|Right|Correct)\b/.test(option.textContent.slice(head.textContent.length));
        const chosen = head.textContent.trim()[0] === letter;
        option.open = true;
        head.dataset.mark = (right ? "✓" : "✗") + (chosen ? " your choice" : "");
        option.classList.add(right ? "right" : "wrong");
      });
    options.forEach((option) => {
      option.classList.add("option");
      option.firstElementChild.addEventListener("click", (event) => {
        if (option.firstElementChild.dataset.mark) return;
        event.preventDefault();
        const letter = option.firstElementChild.textContent.trim()[0];
        stored(key, letter);
        reveal(letter);
      });
    });
    if (stored(key)) reveal(stored(key));
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".bd-article details").forEach((first) => {
      if (!isOption(first) || isOption(first.previousElementSibling)) return;
      const options = [first];
      while (isOption(options.at(-1).nextElementSibling)) options.push(options.at(-1).nextElementSibling);
      ask(options);
    });
  });
})();
