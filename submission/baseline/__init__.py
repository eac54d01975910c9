"""The reference baseline: prompt-tuned vision-language models and their calibration losses (needs ``.[baseline]``).

Source: MVC-Bench (8 backbones, 6 prompt learners, 8 calibration settings), sections 3 and 5.
"""
