;;; probes.el --- A door for the tests into a running Emacs; it looks and notes, and changes nothing.  -*- lexical-binding: t -*-

(require 'json)

(defvar probe-prompts nil "What asked the user something so far, newest first.")
(defvar probe-answers (make-hash-table) "What became of the commands, by number.")

(add-hook 'minibuffer-setup-hook (lambda () (push (or (minibuffer-prompt) "") probe-prompts)))
(dolist (asks '(read-char-choice read-char-exclusive read-key read-multiple-choice x-popup-menu x-popup-dialog))
  (advice-add asks :before (lambda (&rest _) (push (symbol-name asks) probe-prompts))))

(defun probe-buffer ()
  "The buffer that the user works in, also while the minibuffer asks."
  (window-buffer (or (minibuffer-selected-window) (selected-window))))

(defun probe-text (&optional name)
  "The whole text of the buffer called NAME, or of the current one."
  (with-current-buffer (or name (current-buffer))
    (save-restriction (widen) (buffer-substring-no-properties (point-min) (point-max)))))

(defun probe-answer (id kind value)
  "Note that the command ID was answered with VALUE, its KIND a result or a failure."
  (puthash id `((,kind . ,value)) probe-answers))

(defun probe-serve (connection line)
  "Evaluate the form in LINE and send its value through CONNECTION."
  (let ((reply (condition-case failure
                   (with-current-buffer (probe-buffer)
                     (save-excursion
                       `((value . ,(eval (read (json-read-from-string line)) t)))))
                 (error `((error . ,(format "%S" failure)))))))
    (process-send-string connection (concat (json-encode reply) "\n"))))

(defun probe-filter (connection data)
  "Take DATA from CONNECTION; a line is a form."
  (let ((lines (split-string (concat (process-get connection 'rest) data) "\n")))
    (process-put connection 'rest (car (last lines)))
    (dolist (line (butlast lines)) (probe-serve connection line))))

(make-network-process :name "probe" :server t :family 'local :service (getenv "TEST_DOOR")
                      :filter #'probe-filter :coding 'utf-8 :noquery t)
